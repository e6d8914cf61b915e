"""Command lines that are refused, each with a sketch of what is said."""

import pytest
from command_line import refused_line

from .checks import holds

FIT = "fit good.csv --target response --inducing 3 --max-iter 2 --quiet"
SESSION = """
$ fit
'DATA' ... fit --help
$ fit good.csv
--target ... fit --help
$ fit good.csv other.csv --target response
other.csv
$ fit good.csv --target Response
'Response' ... Did you mean 'response'
$ FIT --weight absent
--weight ... no column 'absent'
$ fit weights.csv --target response --weight negative
--weight ... 'negative' ... -1 ... data row 2
$ fit weights.csv --target response --weight zero
--weight ... 'zero' ... two rows
$ fit holes.csv --target response --weight w
row 3 ... 'w' ... missing
$ FIT --likelihood weibull --censored absent
--censored ... 'absent'
$ FIT --likelihood weibull --censored response
--censored ... 'response' ... target
$ FIT --censored age
--censored ... weibull
$ fit weights.csv --target response --likelihood weibull --censored negative
'negative' ... 1 (or true) ... got -1 in data row 2
$ fit weights.csv --target zero --likelihood weibull --censored single
'zero' ... positive durations ... 'single' ... got 0 in data row 1
$ fit hole_kind.csv --target kind --likelihood auto
row 3 ... 'kind' ... no label
$ FIT --tol 0
--tol ... 0
$ FIT --tol small
--tol ... small
$ FIT --tol nan
--tol ... nan
$ FIT --max-iter 1.5
--max-iter ... 1.5
$ FIT --seed 1.5
--seed ... 1.5
$ FIT --seed x
--seed ... x
$ FIT --seed 99999999999999999999
--seed ... 99999999999999999999
$ FIT --test-fraction 0
--test-fraction ... 0
$ FIT --test-fraction x
--test-fraction ... x
$ FIT --test-fraction nan
--test-fraction ... nan
$ FIT --test-fraction 0.999
--test-fraction ... 0.999 leaves none of 12 rows to train on
$ FIT --test-fraction 0.9
two different values in 1 rows ... Lower --test-fraction
$ FIT --kernel SE2
--kernel ... SE2
$ FIT --kernel ''
--kernel
$ FIT --likelihood binomial
--likelihood ... binomial
$ FIT --likelihood ''
--likelihood
$ FIT --power half
--power ... half
$ FIT --out -
--out ... standard output ... name a file
$ FIT --out unit.csv
--out ... 'unit.csv' ... no model file
$ FIT --out arrays.npz
--out ... 'arrays.npz' ... no model file
$ FIT --columns dose=category --columns dose=number
--columns ... 'dose' ... 'category' ... 'number'
$ FIT --separator x
--separator ... 'x' ... tab
$ FIT --exposure weight
--exposure ... poisson or negative_binomial; leave it out
$ FIT --target-transform log --likelihood student_t
--target-transform ... gaussian ... student_t
$ FIT --drop weight
--drop ... no column 'weight' ... Its columns
$ FIT --drop response
--drop ... 'response' ... not an input
$ FIT --columns age
--columns ... NAME=KIND ... 'age'
$ FIT --columns age=word
--columns ... 'age' ... category ... 'word'
$ fit text.csv --target response
text.csv ... no column is left ... 'age'
$ fit text.csv --target age --likelihood cauchy
--likelihood ... negative_binomial
$ fit counts.csv --target response --likelihood poisson
counts
$ fit counts.csv --target response --likelihood ordinal
--likelihood ordinal ... 'response' holds -1 ... the numbers of ordered classes
$ fit good.csv --target response --likelihood auto
continuous
$ fit three.csv --target kind --likelihood auto --test-fraction 0.4 --seed 7
--test-fraction ... 'rare' ... no training row
$ fit rare.csv --target y --likelihood gaussian --test-fraction 0.1 --seed 1
--test-fraction ... SMSE ... --seed
$ fit rare.csv --target y --likelihood poisson --test-fraction 0.1 --seed 1
--test-fraction ... SMSE ... --seed
$ fit words.csv --target c
column 'c' holds text, 'x' ... --likelihood auto
$ fit unit.csv --target c
'988 CHF'; a number is expected, without a unit
$ FIT --out /dev/null
--out ... /dev/null
$ FIT --out good.csv
--out ... good.csv ... data
$ FIT --report -
--report: - is not for this option; name a file
$ FIT --report weights.csv
--report ... 'weights.csv' ... no HTML page
$ FIT --checkpoint -
--checkpoint: - is not for this option; name a file
$ FIT --report absent/report.html
--report ... absent/report.html
$ FIT --report model.npz
--report ... model.npz
$ FIT --checkpoint absent/run.ckpt
--checkpoint ... absent/run.ckpt
$ FIT --checkpoint model.npz
--checkpoint ... model.npz
$ FIT --checkpoint run.html --report run.html
--checkpoint ... run.html ... --report
$ fit - --target response
standard input ... empty
$ fit - --target response --in-pieces
standard input
$ fit folder --target response --in-pieces
'folder' holds no file ... .parquet
$ fit parts --target response --in-pieces --weight absent --quiet
--weight ... no column 'absent'
$ fit parts --target site --in-pieces --quiet
target 'site' has fewer than two different values in
$ fit parts --target site --in-pieces --likelihood auto --quiet
one class only
$ predict model.npz labelled.csv
labelled.csv ... 'age'
$ predict model.npz short.csv
'site' ... Did you mean 'sites'
$ predict model.npz nan.csv
row 2 ... 'age' ... missing
$ predict model.npz old.csv
row 2 ... 'age' ... 'old'
$ predict model.npz -
standard input ... empty
$ predict model.npz - --quiet
--quiet
$ predict model.npz good.csv --out good.csv
--out ... good.csv
$ predict model.npz good.csv --out model.npz
--out ... model.npz
$ predict model.npz good.csv --out newer.npz
--out ... 'newer.npz' ... no table
$ predict model.npz good.csv --interval 1
--interval
$ predict model.npz good.csv --json --out -
--json ... --out
$ predict model.npz parts --in-pieces --json
--in-pieces ... --out
$ predict model.npz - --in-pieces --out p.csv
--in-pieces ... reads a file or a folder
$ predict model.npz parts --in-pieces --out parts/p.csv
--out ... one of the files of 'parts'
$ compare --data absent
no data set 'absent' ... diabetes ... for classification: breast_cancer ... SPARSE_PEP_DATA
$ compare --data diabetes --data-dir good.csv
good.csv ... not a folder
$ compare --data diabetes --likelihood auto
--likelihood ... numbers
$ compare --data broken --data-dir data
broken_splits.json.gz ... splits file
$ compare --data none --data-dir data
none_splits.json.gz ... no split
$ compare --data twice --data-dir data
twice_splits.json.gz ... twice
$ compare --data zipped --data-dir data
zipped.csv.gz ... damaged gzip
$ compare --data targetless --data-dir data
targetless.csv.gz ... 'y'
$ compare good.csv --target response --powers 0,,1
--powers ... ''
$ compare good.csv --target response --out good.csv
--out ... good.csv ... data
$ compare good.csv --target response --out model.npz
--out ... 'model.npz' ... no table
$ compare good.csv --target response --json --out -
--json ... --out
$ compare --powers 0,1.1
--powers ... '1.1'
$ compare --drop age
--drop ... CSV file
$ compare same.csv --target response
target ... different values
$ compare three.csv --target kind --likelihood auto --splits 30
three, split ... 'rare' ... no training row
$ compare words.csv --target c
column 'c' holds text, 'x' ... --likelihood auto
$ demo extra
extra
$ predictt
No such command ... predict
"""
LINES = [entry.splitlines() for entry in SESSION.replace("FIT", FIT).split("$ ")[1:]]


@pytest.mark.parametrize("line, sketch", LINES)
def test_a_bad_line_is_answered_in_one(bench, line, sketch):
    message = refused_line(line, stdin=b"")
    assert holds(message, sketch), message


def test_standard_input_that_is_no_text(bench):
    message = refused_line("compare - --target kind", stdin=b"\xff\xfe\0\1")
    assert holds(message, "standard input ... text"), message
