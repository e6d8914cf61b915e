# upd.sh pyfile notebook
jupytext --quiet --update --from py:percent --to ipynb -o $2 $1
