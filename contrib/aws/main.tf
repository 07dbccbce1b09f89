# What Burst needs in an AWS account: the same as burst.yaml has.
terraform {
  required_version = ">= 1.3"
  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 5.0"
    }
  }
}

data "aws_caller_identity" "me" {}
data "aws_partition" "here" {}
data "aws_region" "here" {}

locals {
  ec2 = "arn:${data.aws_partition.here.partition}:ec2:*:${data.aws_caller_identity.me.account_id}"
  own = { StringEquals = { "aws:ResourceTag/burst:cluster" = var.cluster_id } }
  new = { StringEquals = { "aws:RequestTag/burst:cluster" = var.cluster_id } }
}

# For burstd on the controller: attach it to the role or user whose credentials it has.
resource "aws_iam_policy" "controller" {
  name_prefix = "burst-controller-"
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [
      {
        Sid    = "Look"
        Effect = "Allow"
        Action = [
          "ec2:DescribeImages",
          "ec2:DescribeInstanceTypeOfferings",
          "ec2:DescribeInstanceTypes",
          "ec2:DescribeInstances",
          "ec2:DescribeKeyPairs",
          "ec2:DescribeLaunchTemplateVersions",
          "ec2:DescribeLaunchTemplates",
          "ec2:DescribePlacementGroups",
          "ec2:DescribeSecurityGroups",
          "ec2:DescribeSnapshots",
          "ec2:DescribeSpotPriceHistory",
          "ec2:DescribeSubnets",
          "pricing:GetProducts",
          "servicequotas:GetServiceQuota",
          "sts:GetCallerIdentity",
        ]
        Resource = "*"
      },
      {
        Sid       = "LaunchTagged"
        Effect    = "Allow"
        Action    = ["ec2:RunInstances", "ec2:CreateFleet"]
        Resource  = ["${local.ec2}:instance/*", "${local.ec2}:fleet/*"]
        Condition = local.new
      },
      {
        Sid    = "LaunchWith"
        Effect = "Allow"
        Action = ["ec2:RunInstances", "ec2:CreateFleet"]
        Resource = [
          "${local.ec2}:capacity-reservation/*",
          "${local.ec2}:key-pair/*",
          "${local.ec2}:launch-template/*",
          "${local.ec2}:network-interface/*",
          "${local.ec2}:placement-group/*",
          "${local.ec2}:security-group/*",
          "${local.ec2}:spot-instances-request/*",
          "${local.ec2}:subnet/*",
          "${local.ec2}:volume/*",
          "arn:${data.aws_partition.here.partition}:ec2:*::image/*",
          "arn:${data.aws_partition.here.partition}:ec2:*::snapshot/*",
          "arn:${data.aws_partition.here.partition}:resource-groups:*:${data.aws_caller_identity.me.account_id}:group/*",
        ]
      },
      {
        Sid       = "MakeTagged"
        Effect    = "Allow"
        Action    = ["ec2:CreateLaunchTemplate", "ec2:CreatePlacementGroup"]
        Resource  = "*"
        Condition = local.new
      },
      {
        Sid    = "ImageTagged"
        Effect = "Allow"
        Action = "ec2:CreateImage"
        Resource = [
          "arn:${data.aws_partition.here.partition}:ec2:*::image/*",
          "arn:${data.aws_partition.here.partition}:ec2:*::snapshot/*",
        ]
        Condition = local.new
      },
      {
        Sid       = "TagAtBirth"
        Effect    = "Allow"
        Action    = "ec2:CreateTags"
        Resource  = "*"
        Condition = { StringEquals = { "ec2:CreateAction" = ["RunInstances", "CreateFleet", "CreateLaunchTemplate", "CreatePlacementGroup", "CreateImage"] } }
      },
      {
        Sid    = "Ours"
        Effect = "Allow"
        Action = [
          "ec2:CreateImage",
          "ec2:CreateLaunchTemplateVersion",
          "ec2:CreateTags",
          "ec2:DeleteLaunchTemplate",
          "ec2:DeleteLaunchTemplateVersions",
          "ec2:DeletePlacementGroup",
          "ec2:DeleteSnapshot",
          "ec2:DeregisterImage",
          "ec2:GetConsoleOutput",
          "ec2:ModifyLaunchTemplate",
          "ec2:TerminateInstances",
        ]
        Resource  = "*"
        Condition = local.own
      },
      {
        Sid    = "ImageParameters"
        Effect = "Allow"
        Action = "ssm:GetParameter"
        Resource = [
          "arn:${data.aws_partition.here.partition}:ssm:*::parameter/aws/service/*",
          "arn:${data.aws_partition.here.partition}:ssm:*:${data.aws_caller_identity.me.account_id}:parameter${var.image_parameters}",
        ]
      },
      {
        Sid       = "GiveNodesTheirRole"
        Effect    = "Allow"
        Action    = "iam:PassRole"
        Resource  = aws_iam_role.node.arn
        Condition = { StringEquals = { "iam:PassedToService" = "ec2.${data.aws_partition.here.dns_suffix}" } }
      },
      {
        Sid       = "ServiceRolesOfSpotAndFleet"
        Effect    = "Allow"
        Action    = "iam:CreateServiceLinkedRole"
        Resource  = "arn:${data.aws_partition.here.partition}:iam::${data.aws_caller_identity.me.account_id}:role/aws-service-role/*"
        Condition = { StringEquals = { "iam:AWSServiceName" = ["spot.amazonaws.com", "ec2fleet.amazonaws.com"] } }
      },
      {
        Sid      = "Notices"
        Effect   = "Allow"
        Action   = ["sqs:ChangeMessageVisibility", "sqs:DeleteMessage", "sqs:GetQueueAttributes", "sqs:ReceiveMessage"]
        Resource = aws_sqs_queue.notices.arn
      },
    ]
  })
}

resource "aws_iam_role" "node" {
  name_prefix = "burst-node-"
  assume_role_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect    = "Allow"
      Principal = { Service = "ec2.${data.aws_partition.here.dns_suffix}" }
      Action    = "sts:AssumeRole"
    }]
  })
}

locals {
  key_arn = "arn:${data.aws_partition.here.partition}:%s:${data.aws_region.here.name}:${data.aws_caller_identity.me.account_id}:%s"
}

resource "aws_iam_role_policy" "parameter" {
  count = var.key_source == "ssm" ? 1 : 0
  name  = "munge-key"
  role  = aws_iam_role.node.id
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect   = "Allow"
      Action   = "ssm:GetParameter"
      Resource = format(local.key_arn, "ssm", "parameter${var.key_name}")
    }]
  })
}

resource "aws_iam_role_policy" "secret" {
  count = var.key_source == "secretsmanager" ? 1 : 0
  name  = "munge-key"
  role  = aws_iam_role.node.id
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect   = "Allow"
      Action   = "secretsmanager:GetSecretValue"
      Resource = format(local.key_arn, "secretsmanager", "secret:${var.key_name}-??????")
    }]
  })
}

resource "aws_iam_role_policy" "kms" {
  count = var.key_kms_arn != "" && var.key_source != "image" ? 1 : 0
  name  = "munge-key-kms"
  role  = aws_iam_role.node.id
  policy = jsonencode({
    Version   = "2012-10-17"
    Statement = [{ Effect = "Allow", Action = "kms:Decrypt", Resource = var.key_kms_arn }]
  })
}

resource "aws_iam_instance_profile" "node" {
  name_prefix = "burst-node-"
  role        = aws_iam_role.node.name
}

resource "aws_sqs_queue" "notices" {
  name_prefix               = "burst-notices-"
  message_retention_seconds = 300
  receive_wait_time_seconds = 20
  sqs_managed_sse_enabled   = true
}

resource "aws_sqs_queue_policy" "notices" {
  queue_url = aws_sqs_queue.notices.url
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [
      {
        Sid       = "EventsSend"
        Effect    = "Allow"
        Principal = { Service = "events.amazonaws.com" }
        Action    = "sqs:SendMessage"
        Resource  = aws_sqs_queue.notices.arn
        Condition = { StringEquals = { "aws:SourceAccount" = data.aws_caller_identity.me.account_id } }
      },
      {
        Sid       = "TlsOnly"
        Effect    = "Deny"
        Principal = "*"
        Action    = "sqs:*"
        Resource  = aws_sqs_queue.notices.arn
        Condition = { Bool = { "aws:SecureTransport" = "false" } }
      },
    ]
  })
}

locals {
  rules = {
    spot      = { source = ["aws.ec2"], detail-type = ["EC2 Spot Instance Interruption Warning"] }
    rebalance = { source = ["aws.ec2"], detail-type = ["EC2 Instance Rebalance Recommendation"] }
    state     = { source = ["aws.ec2"], detail-type = ["EC2 Instance State-change Notification"] }
    health    = { source = ["aws.health"], detail-type = ["AWS Health Event"], detail = { service = ["EC2"], eventTypeCategory = ["scheduledChange"] } }
  }
}

resource "aws_cloudwatch_event_rule" "notices" {
  for_each      = local.rules
  name_prefix   = "burst-${each.key}-"
  event_pattern = jsonencode(each.value)
}

resource "aws_cloudwatch_event_target" "notices" {
  for_each = local.rules
  rule     = aws_cloudwatch_event_rule.notices[each.key].name
  arn      = aws_sqs_queue.notices.arn
}
