"""The importer: a QDQ model in, integer layers and host programs out."""
