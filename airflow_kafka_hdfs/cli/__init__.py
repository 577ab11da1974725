"""`airflow kafka-hdfs …`: commands for people; each is a function of the core with an argparse face."""
