"""Everything in the cockpit that is special to the Spade BDI worker. Its packages are never imported here."""
