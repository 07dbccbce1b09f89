output "controller_policy_arn" {
  value = aws_iam_policy.controller.arn
}

output "node_profile_name" {
  value = aws_iam_instance_profile.node.name
}

output "node_security_group" {
  value = aws_security_group.node.id
}

output "controller_security_group" {
  value = aws_security_group.controller.id
}

output "queue_url" {
  value = aws_sqs_queue.notices.url
}

output "efs_source" {
  value = one(aws_efs_file_system.shared[*].id)
}

output "fsx_source" {
  value = one([for f in aws_fsx_lustre_file_system.shared : "${f.dns_name}@tcp:/${f.mount_name}"])
}
