"""What is known already: the disagreements and scores against which only what is new fails."""
