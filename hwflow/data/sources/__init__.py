"""Where rows of data come from: tables, NumPy files, folders of pictures and of recordings."""
