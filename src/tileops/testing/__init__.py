"""Tests that are generated from specs, for the ops of this package and for those of packs.

`drawing` draws small calls from a spec alone, `calling` makes them real and says what is expected,
`generated` holds the tests themselves, `plugin` offers them to pytest, `serving` tells who served
the calls. Of the package only `bench`
imports any of this, which judges workload rows by the same rules; none of it knows an op by name.
"""
