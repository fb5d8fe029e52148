"""The brief: one typed document, assembled from the rows of a job and rendered to files."""
