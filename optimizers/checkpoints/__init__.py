"""Where models come from (packaged wheel, local folder, hub) and the facts about them, read without loading."""
