// Package libburst holds the tests of libburst, the C library by which a program
// learns from burst-srun when to write a checkpoint, and where. The library is in src,
// `make` builds it, examples shows its use, and libburst.3 is its manual page. The other
// side is ckpt=libburst, of ft/ckpt/methods.
package libburst
