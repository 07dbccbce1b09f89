// Package heat holds the end-to-end tests of heat, Burst's reference MPI
// application: 2-D heat diffusion in C, whose final field is the same to the
// bit for any number of ranks, with or without a restart on the way. The
// sources are in src, `make` builds them, and heat.sbatch runs them under Slurm.
// Built with SCR=PREFIX it checkpoints through the SCR library, with LIBBURST=PREFIX
// through libburst.
package heat
