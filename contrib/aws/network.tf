resource "aws_security_group" "node" {
  name_prefix = "burst-node-"
  description = "Burst nodes"
  vpc_id      = var.vpc_id

  ingress {
    description = "slurmctld to slurmd"
    protocol    = "tcp"
    from_port   = var.slurmd_port
    to_port     = var.slurmd_port
    cidr_blocks = [var.controller_cidr]
  }
  ingress {
    description = "MPI, EFA, srun, the file system"
    protocol    = "-1"
    from_port   = 0
    to_port     = 0
    self        = true
  }
  egress {
    description = "EFA asks for a rule to the group itself"
    protocol    = "-1"
    from_port   = 0
    to_port     = 0
    self        = true
  }
  egress {
    protocol    = "-1"
    from_port   = 0
    to_port     = 0
    cidr_blocks = ["0.0.0.0/0"]
  }
}

# For a controller, or an NFS server, that is an instance in this VPC.
resource "aws_security_group" "controller" {
  name_prefix = "burst-controller-"
  description = "Slurm controller, as Burst nodes reach it"
  vpc_id      = var.vpc_id

  dynamic "ingress" {
    for_each = {
      "slurmd to slurmctld" = [var.slurmctld_port, var.slurmctld_port]
      "nodes to burstd"     = [var.burstd_port, var.burstd_port]
      "slurmstepd to srun"  = var.srun_ports
      "NFS"                 = [2049, 2049]
    }
    content {
      description     = ingress.key
      protocol        = "tcp"
      from_port       = ingress.value[0]
      to_port         = ingress.value[1]
      security_groups = [aws_security_group.node.id]
    }
  }
}

resource "aws_efs_file_system" "shared" {
  count           = var.shared_storage == "efs" ? 1 : 0
  encrypted       = true
  throughput_mode = "elastic"
  lifecycle {
    prevent_destroy = true
  }
}

resource "aws_efs_mount_target" "shared" {
  count           = var.shared_storage == "efs" ? 1 : 0
  file_system_id  = aws_efs_file_system.shared[0].id
  subnet_id       = var.subnet_id
  security_groups = [aws_security_group.node.id]
}

resource "aws_fsx_lustre_file_system" "shared" {
  count                    = var.shared_storage == "fsx" ? 1 : 0
  deployment_type          = "SCRATCH_2"
  file_system_type_version = "2.15"
  storage_capacity         = var.fsx_gib
  subnet_ids               = [var.subnet_id]
  security_group_ids       = [aws_security_group.node.id]
  lifecycle {
    prevent_destroy = true
  }
}
