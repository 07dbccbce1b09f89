variable "cluster_id" {
  description = "The cluster's random id, as \"burst status\" shows it. Only instances with this tag can be ended."
  type        = string
}

variable "vpc_id" {
  type = string
}

variable "subnet_id" {
  description = "For the shared file system; nodes may use more subnets."
  type        = string
}

variable "controller_cidr" {
  description = "Where slurmctld, burstd and login nodes are, as nodes see them (over the VPN), like 10.0.0.0/24: srun speaks to slurmd itself."
  type        = string
}

variable "slurmd_port" {
  type    = number
  default = 6818
}

variable "slurmctld_port" {
  type    = number
  default = 6817
}

variable "burstd_port" {
  type    = number
  default = 9811
}

variable "srun_ports" {
  description = "SrunPortRange of slurm.conf: first and last."
  type        = tuple([number, number])
  default     = [60001, 63000]
}

variable "key_source" {
  description = "Where the MUNGE key is; with \"image\" the nodes' role may read nothing."
  type        = string
  default     = "ssm"
  validation {
    condition     = contains(["ssm", "secretsmanager", "image"], var.key_source)
    error_message = "key_source is ssm, secretsmanager or image."
  }
}

variable "key_name" {
  description = "Name of the SecureString parameter (with its first slash) or of the secret."
  type        = string
  default     = "/burst/munge-key"
}

variable "key_kms_arn" {
  description = "ARN of a customer-managed KMS key under which it is stored; empty for AWS's own."
  type        = string
  default     = ""
}

variable "image_parameters" {
  description = "Name (or a pattern) of your own parameters that name images, for image = \"ssm:...\" in burst.toml."
  type        = string
  default     = "/burst/images/*"
}

variable "shared_storage" {
  type    = string
  default = "none"
  validation {
    condition     = contains(["none", "efs", "fsx"], var.shared_storage)
    error_message = "shared_storage is none, efs or fsx."
  }
}

variable "fsx_gib" {
  type    = number
  default = 1200
}
