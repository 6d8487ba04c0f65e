"""The project itself: documents, set-up, import rules, examples, habits of the tests."""
