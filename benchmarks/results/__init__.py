"""The results' page: written from files of benchmarks and of load runs, and by nobody's hand."""
