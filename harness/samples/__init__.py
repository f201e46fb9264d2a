"""What a run leaves on disk for its figures: rows, their files, and the manifest that names what was lost since."""
