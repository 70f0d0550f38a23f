"""A file that decides what another one says belongs to the digest of an import."""

from __future__ import annotations

import json
import shutil

from safemetry.readers import import_sources

SAMPLES = "samples_metabench_truthfulqa_permute_2024-11-26T10-47-32.305387.jsonl"


def test_samples_with_other_results_beside_them_are_another_source(shared, tmp_path):
    shutil.copy(shared / "formats" / "lm_eval" / SAMPLES, tmp_path / SAMPLES)

    def imported(model: str) -> tuple[bool, int]:
        results = tmp_path / "results_2024-11-26T10-47-32.305387.json"
        results.write_text(json.dumps({"model_name": model}))
        report = import_sources([str(tmp_path / SAMPLES)], tmp_path / "study").sources_read[0]
        return report.added, report.judgements

    assert imported("org/first") == (True, 25)
    assert imported("org/first") == (False, 25)
    assert imported("org/second") == (True, 25)
