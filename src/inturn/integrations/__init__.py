"""The priority system inside queues that people already run: a file for each library."""
