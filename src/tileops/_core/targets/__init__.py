"""Targets: what backends registered, how they are loaded, which one serves a device."""
