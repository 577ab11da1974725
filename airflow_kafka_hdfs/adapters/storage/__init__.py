"""Stores of files: local disk, HDFS over WebHDFS or native RPC, object stores through fsspec."""
