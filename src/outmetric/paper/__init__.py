"""The experiments of the paper: what is compared (`protocol`), a run that can be resumed (`runner`), and the `report`."""
