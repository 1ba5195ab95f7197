"""Is a model refused that could not be used, and none that could?"""

import copy
from dataclasses import replace

import numpy as np
import pytest
from sklearn.compose import make_column_transformer
from sklearn.impute import MissingIndicator, SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler
from sklearn.utils import get_tags
from stored_models import FUNCTIONS
from tampering import Sound

import outmetric
from outmetric import LearnedKernelMetric, kernels
from outmetric.columns import DateParts
from outmetric.storage import ModelFileError

NUMBERS = np.array([[0.0, 1.0], [2.0, 3.0]])
DAYS = np.array([["2024-02-28"], ["2024-02-29"]], dtype=object)
LETTERS = np.array([["a"], ["b"]], dtype=object)


def in_state(name, value):
    return lambda model: vars(model).__setitem__(name, value)


def on(step, change):
    """A change of a step of a pipeline."""
    return lambda model: change(model[step])


def without(*names):
    return lambda model: [delattr(model, name) for name in names]


def forget(step):
    without(*[name for name in vars(step) if name.endswith("_")])(step)


def fall(step):
    step.quantiles_ = -step.quantiles_


def in_metric(name, change):
    return lambda model: object.__setattr__(model.metric_, name, change(getattr(model.metric_, name)))


def turn_offset(metric):
    object.__setattr__(metric, "offset", np.zeros((len(metric.offset), 2)))


def turned_names(step):
    step.feature_names_in_ = step.feature_names_in_[::-1]


def nested_places(step):
    step._transformer_to_input_indices = {name: [places] for name, places in step._transformer_to_input_indices.items()}


def other_names(step):
    step.feature_names_in_ = np.array([f"other {name}" for name in step.feature_names_in_], dtype=object)


def in_places(change):
    """Change the places of the columns that the first part of a ColumnTransformer gets."""

    def changed(step):
        name, places = next(iter(step._transformer_to_input_indices.items()))
        step._transformer_to_input_indices = {**step._transformer_to_input_indices, name: change(list(places))}

    return changed


def fill_gaps(encoder):
    encoder.named_transformers_["dates"].gaps_ = np.array([True])


def in_zone(encoder, zone):
    encoder.named_transformers_["dates"].zones_ = [zone]


def forget_width(encoder):
    without("n_features_in_", "feature_names_in_")(encoder.named_transformers_["dates"])


def narrow(novelty):
    object.__setattr__(novelty, "features", novelty.features[:, 1:])


def in_member(**changes):
    """Change the first member of a committee."""

    def change(model):
        model.committee_[0] = replace(model.committee_[0], **changes)

    return change


def narrow_map(model):
    object.__setattr__(model, "coordinates", model.coordinates[:, :1])


# What a model raised when it was used, and now is refused for: (model, what is changed, what the message tells)
UNUSABLE = {
    "votes for other numbers": ("search", in_state("n_neighbors_", "3"), "n_neighbors_ must be an integer"),
    "classes in a square": ("search", in_state("classes_", np.zeros((3, 1))), "voters and classes do not fit together"),
    "other features": ("search", in_state("n_features_in_", 3), "do not have the same n_features_in_"),
    "no estimator": ("search", in_state("estimator", kernels.Scalar()), "an estimator that is a Scalar"),
    "best of nothing": (
        "searches",
        on(1, lambda search: forget(search.best_estimator_)),
        "best estimator that is none",
    ),
    "best of none": ("search", in_state("best_estimator_", True), "best estimator that is none"),
    "votes without a map": ("searches", on(1, without("best_estimator_")), "best_estimator_"),
    "no member": ("classifier", in_state("committee_", [1]), "a member that is a int"),
    "a committee of none": ("classifier", in_state("committee_", []), "."),
    "a metric that is none": ("model 2", in_state("metric_", kernels.Scalar()), "a metric that is a Scalar"),
    "other data": ("model 2", in_state("_takes", "objects"), "takes objects and its kernel sparse"),
    "data of no kind": ("model 2", in_state("_takes", 3), "LearnedKernelMetric takes 3"),
    "no features": ("model 2", without("n_features_in_"), "claims None features and was learned on 4"),
    "beyond all numbers": ("model 2", in_metric("coefficients", lambda old: 0 * old - 1e308), "coefficients that no data explain"),
    "numbers for words": ("words", in_metric("points", lambda old: np.arange(25.0)), "takes strings"),
    "other outputs": (
        "matrix function",
        in_metric("kernel", lambda old: replace(old, outputs=1)),
        "2 outputs, and its kernel 1",
    ),
    "a function of one word": (
        "function",
        in_metric("kernel", lambda old: kernels.Separable(FUNCTIONS["doubled"])),
        "takes 1 positional argument but 2 were given",
    ),
    "a matrix for a number": ("function", in_metric("kernel", lambda old: kernels.Separable(FUNCTIONS["likenesses"])), "."),
    "quantiles that fall": ("columns", on(1, fall), "quantiles do not ascend"),
    "an offset for each row": ("verifier", lambda model: turn_offset(model.metric[-1].metric_), "an offset of shape"),
    "points far away": ("neighbours", lambda model: in_state("_fit_X", model._fit_X - 1e308)(model), "distances are no numbers"),
    "a metric of one row": (
        "neighbours",
        lambda model: model.set_params(metric=FUNCTIONS["doubled"], algorithm="brute"),
        "takes 1 positional argument but 2 were given",
    ),
    "no steps": ("regression", lambda model: model.steps.clear(), "a Pipeline has no steps"),
    "too many neighbours": ("neighbours", in_state("n_neighbors", 10**6), "n_neighbors <= n_samples_fit"),
    "a step that is not fitted": ("regression", on(0, forget), "a fitted Pipeline has a StandardScaler that is not"),
    "a scale that is lost": ("regression", on(0, without("scale_")), "scale_"),
    "a word for a step": ("regression", lambda model: model.steps.insert(0, ("first", "drop")), "a step that is a str"),
    "names of nothing": ("table", on(0, in_state("feature_names_in_", np.arange(5))), "names of features that are none"),
    "names of others": ("table", on(0, turned_names), "a ColumnTransformer has other columns than it names"),
    "parts for others": (
        "table",
        lambda model: other_names(model[0].transformers_[0][1]),
        "gives a OneHotEncoder other columns than this knows",
    ),
    "features of no number": ("columns", on(1, without("n_features_in_")), "does not know its features"),
    "dates of no number": ("dates", lambda model: forget_width(model.best_estimator_[0]), "does not know its features"),
    "columns that pass and are not known": (
        "table",
        lambda model: without("n_features_in_", "feature_names_in_")(model[0].named_transformers_["remainder"]),
        "a FunctionTransformer that is not",
    ),
    "more outputs": ("frames", on(2, in_state("_n_features_out", 10**9)), "claims 1000000000 outputs and has 2"),
    "more outputs of a committee": ("classifier", in_state("_n_features_out", 10**9), "other outputs than its best map"),
    "no categories": ("table", lambda model: without("categories_")(model[0].transformers_[0][1]), "not the categories"),
    "a table without parts": ("table", on(0, without("transformers_")), "does not know its parts"),
    "a truth value for a column": ("table", on(0, in_places(lambda old: [True, *old[1:]])), "columns that there are not"),
    "a column twice": ("table", on(0, in_places(lambda old: [*old, old[0]])), "takes a column of a table twice"),
    "a table twice encoded": (
        "table",
        lambda model: model.steps.insert(1, ("again", model[0])),
        "a ColumnTransformer gives [0-9]+ columns to a ColumnTransformer that takes 5",
    ),
    "columns of other points": ("kernels of columns", turned_names, "other columns than the points"),
    "a map without its model": ("map", without("model_"), "a map has a model that is none"),
    "a map without labels": (
        "map of two classes",
        lambda model: in_state("labelled_", np.zeros_like(model.labelled_))(model),
        "no rows whose labels could be asked for",
    ),
    "columns within columns": ("table", on(0, nested_places), "columns that there are not"),
    "a map that is a step": ("classifier", in_state("best_estimator_", StandardScaler()), "a map that is a StandardScaler"),
    "a member without weight": ("classifier", in_member(weight=0.0), "weight must be a finite number > 0"),
    "a member beyond all weights": ("classifier", in_member(weight=np.inf), "weight must be a finite number > 0"),
    "a member that is cold": ("classifier", in_member(temperature=-1.0), "temperature must be a finite number > 0"),
    "a member that predicts numbers": ("classifier", in_member(temperature=None), "a member that predicts numbers"),
    "offsets of other classes": ("classifier", in_state("class_offsets_", np.zeros(2)), "offsets for other classes"),
    "offsets that are words": ("classifier", in_state("class_offsets_", np.array(["a", "b", "c"])), "."),
    "neighbours that are none": ("classifier", in_state("neighbours_", StandardScaler()), "neighbours that are a StandardScaler"),
    "a member that is upside down": ("regressor", in_member(slope=-1.0), "slope must be a finite number >= 0"),
    "a member that names classes": ("regressor", in_member(voters=None, temperature=1.0), "a member that names classes"),
    "errors of others": ("regressor", in_state("out_of_fold_errors_", np.zeros((9, 2))), "a column for each target"),
    "errors without number": (
        "regressor",
        in_state("out_of_fold_errors_", np.full((9, 1), np.nan)),
        "errors are numbers",
    ),
    "targets without number": ("regressor", in_state("n_targets_", "1"), "n_targets_ must be an integer"),
    "gaps in dates": ("dates", lambda model: fill_gaps(model.best_estimator_[0]), "X has 15 features, but StandardScaler"),
    "a zone that is none": ("dates", lambda model: in_zone(model.best_estimator_[0], "nowhere"), "the time zone 'nowhere'"),
    "novelty by nothing": ("classifier", in_state("novelty_", kernels.Scalar()), "judges novelty by a Scalar"),
    "novelty among others": ("classifier", lambda model: narrow(model.novelty_), "must have the same number of columns"),
    "novelty in a table": ("table model", lambda model: narrow(model.surroundings), "must have the same number of columns"),
    "neighbours elsewhere": ("table model", narrow_map, "X has 2 features, but NearestNeighbors is expecting 1"),
    "a function that is none": ("indicator", on(-1, in_state("func", 3)), "a function that is none"),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", UNUSABLE)
def test_a_model_that_could_not_be_used_is_refused(case, tmp_path):
    name, change, message = UNUSABLE[case]
    model = copy.deepcopy(Sound.of(name, tmp_path).model)
    change(model)
    outmetric.save(model, tmp_path / "model")
    with pytest.raises(ModelFileError, match=message):
        outmetric.load(tmp_path / "model", functions=FUNCTIONS)


def test_a_column_is_of_text_or_of_numbers(tmp_path):
    rows = np.array([["a", 1.0], ["b", 2.0]], dtype=object)
    model = make_column_transformer((OneHotEncoder(), [0]), (StandardScaler(), [1])).fit(rows)
    model._transformer_to_input_indices["standardscaler"] = [0]
    outmetric.save(model, tmp_path / "model")
    with pytest.raises(ModelFileError, match="takes a column for text as well as for numbers"):
        outmetric.load(tmp_path / "model")


def changed_columns(**changes):
    return lambda model: object.__setattr__(model, "columns", replace(model.columns, **changes))


def without_its_rows(change):
    """The same for a model that does not keep the columns of its training rows."""

    def changed(model):
        change(model)
        object.__setattr__(model, "table", None)

    return changed


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (changed_columns(features=("a", "b", "c", "d", "e")), "other columns than its parts"),
        (changed_columns(features=("a", "b")), "kinds of columns"),
        (changed_columns(features=("a",) * 5), "not all different"),
        (without_its_rows(changed_columns(kinds=("number",) * 5)), "prepares other kinds of columns"),
        (without_its_rows(changed_columns(kinds=("date",) * 5)), "kinds of columns"),
        (changed_columns(kinds=("number",) * 5), "a column of numbers that holds none"),
        (changed_columns(kinds=("date",) * 5), "a column of dates that holds none"),
        (changed_columns(classes=1), "classes of columns"),
    ],
)
def test_a_model_of_a_table_that_is_of_another(change, message, tmp_path):
    model = Sound.of("table model", tmp_path).model
    change(model)
    outmetric.save(model, tmp_path / "model")
    with pytest.raises(ModelFileError, match=message):
        outmetric.load(tmp_path / "model")


def test_tags_are_told_of_a_model_that_cannot_be_fitted():
    """scikit-learn asks for them before anything else; `fit` tells what is wrong."""
    model = LearnedKernelMetric(kernel_params=[1])
    assert get_tags(model).input_tags.sparse
    with pytest.raises(ValueError, match="kernel_params must be None or a dict"):
        model.fit([[0.0], [1.0]], [0, 1])


@pytest.mark.parametrize(
    "model",
    [
        make_pipeline(StandardScaler(), FunctionTransformer()),
        make_pipeline(StandardScaler(), make_pipeline(StandardScaler(), FunctionTransformer())),
        make_pipeline(FunctionTransformer(), OneHotEncoder()).fit([["a"], ["b"]]),
        make_pipeline(SimpleImputer(strategy="constant", fill_value="none"), OneHotEncoder()).fit(LETTERS),
        make_pipeline(MissingIndicator(missing_values=1.0, error_on_new=True)).fit(NUMBERS),
        make_pipeline(make_column_transformer((StandardScaler(), [0, 1]), (OneHotEncoder(), []))).fit(NUMBERS),
        make_pipeline(make_column_transformer((StandardScaler(), [True, True]), (OneHotEncoder(), [False, False]))).fit(NUMBERS),
        make_pipeline(
            make_column_transformer((StandardScaler(), [0]), remainder="passthrough"),
            make_column_transformer((OneHotEncoder(), [1]), remainder="passthrough"),
        ).fit(np.array([[1.0, "a"], [2.0, "b"]], dtype=object)),
        make_pipeline(make_column_transformer((OneHotEncoder(), [0]), (DateParts(), [0]))).fit(DAYS),
        make_pipeline(make_column_transformer((DateParts(), [0]), (OneHotEncoder(), [0]))).fit(DAYS),
        make_pipeline(DateParts(), StandardScaler()).fit(DAYS + " 12:00+01:00"),
    ],
    ids=lambda model: " ".join(type(step).__name__ for step in model),
)
def test_what_no_trial_can_know_is_not_refused(model, tmp_path):
    outmetric.save(model, tmp_path / "model")
    assert repr(outmetric.load(tmp_path / "model")) == repr(model)
