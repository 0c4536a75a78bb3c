"""Objects as the cluster keeps them: storing, defaults, admission, deletion, limits."""
