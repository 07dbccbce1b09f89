package main

import "github.com/spf13/cobra"

// commands lists the subcommands, one file each.
func commands() []*cobra.Command {
	return []*cobra.Command{
		initCommand(),
		checkCommand(),
		genconfCommand(),
		pricesCommand(),
		awsCommand(),
		statusCommand(),
		nodesCommand(),
		eventsCommand(),
		jobsCommand(),
		poolCommand(),
		imageCommand(),
		pauseCommand(),
		resumeCommand(),
		resumeTestCommand(),
		stopAllCommand(),
		evictCommand(),
		checkpointCommand(),
		reconcileCommand(),
		costCommand(),
		overflowCommand(),
		budgetCommand(),
		explainCommand(),
		envCommand(),
		hostlistCommand(),
		benchCommand(),
		benchResume1000Command(),
		benchStorm1000Command(),
		benchAWSCommand(),
		benchSlurmCommand(),
		localCommand(),
		demoCommand(),
		versionCommand(),
	}
}
