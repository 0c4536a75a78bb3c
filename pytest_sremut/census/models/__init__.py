"""What calls outside the benchmark do: builtins, libraries, kubectl, helm."""
