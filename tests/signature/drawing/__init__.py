"""Drawing random well-formed signatures, each with a solution that is known without the code."""
