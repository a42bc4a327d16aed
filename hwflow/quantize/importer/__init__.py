"""The importer: it turns a QDQ model into integer layers and host programs."""
