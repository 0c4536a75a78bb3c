"""Controllers of workloads: Deployments, sets, Jobs, disruption budgets."""
