"""The wav2vec2 CTC recipe: fine-tune and evaluate omniASR models with fairseq2's trainer."""
