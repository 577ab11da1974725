"""Files being written: sinks by format, and the bounded set of open files of a task."""
