"""Airflow operators: thin faces of the core."""
