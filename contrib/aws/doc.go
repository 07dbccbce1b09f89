// Package aws holds what a site sets up in its AWS account for Burst, as
// CloudFormation (burst.yaml) and as Terraform (main.tf and the files beside
// it): the controller's IAM policy, the nodes' role, security groups, the
// queue of notices and, when wanted, a shared file system. Its tests hold both
// to the same permissions.
package aws
