"""Execution functions of simulated minions: how they are called, and in `modules` one module for each of Salt's."""
