"""What everything else stands on: errors, records, files, pictures. Knows nothing of an audit."""
