from tests.recipe.conftest import dataset

__all__ = ["dataset"]
