// Placeholder of an empty folder.
