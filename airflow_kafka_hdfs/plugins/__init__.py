"""What Airflow loads into its own processes."""
