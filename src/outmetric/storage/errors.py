"""What can go wrong with a model's file."""


class NotStorableError(ValueError):
    """Something in a model cannot be written to a file."""


class ModelFileError(ValueError):
    """A file that is no model, is damaged, or was made by a newer version; the message says which."""
