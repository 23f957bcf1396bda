"""What every room stands on: errors, schema, files, processes, audio, native libraries."""
