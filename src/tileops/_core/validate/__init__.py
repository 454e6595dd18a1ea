"""Every numbered check on specs, on their rows and on their code, in one report."""
