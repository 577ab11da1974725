"""Airflow connections become adapters here."""
