"""Answers of a scikit-learn model to real data, with attributes that are derived from it."""

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler


@pytest.fixture(scope="session")
def tumors() -> pd.DataFrame:
    """Breast tumors: what a model of three features says, and two attributes of each."""
    data = load_breast_cancer()
    table = pd.DataFrame(data.data, columns=data.feature_names)
    names = np.where(data.target == 0, "malignant", "benign")
    features = StandardScaler().fit_transform(table[["mean texture", "mean smoothness"]])
    train = np.arange(len(table)) % 2 == 0
    models = [
        LogisticRegression().fit(features[train][:, columns], names[train])
        for columns in ([0, 1], [0])
    ]
    found = pd.DataFrame(
        {
            "id": [f"tumor {number}" for number in range(len(table))],
            "y": names,
            "p": models[0].predict_proba(features)[:, 1].round(6),
            "q": models[1].predict_proba(features[:, :1])[:, 1].round(6),
            "size": np.where(table["mean radius"] > 14, "large", "small"),
            "texture": np.where(table["mean texture"] > 18.5, "rough", "smooth"),
            "half": np.where(np.arange(len(table)) % 4 < 2, "first", "second"),
            "weight": (1 + 3 * (table["mean area"] > 600)).round(3),
            "patient": np.arange(len(table)) // 3,
            "split": np.where(train, "validation", "test"),
        }
    )
    found["answer"] = np.where(found["p"] >= 0.5, "malignant", "benign")
    return found
