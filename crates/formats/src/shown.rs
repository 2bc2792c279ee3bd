//! What sources have in common that show another one under a model of their own.

/// The methods of a source with the fields `source` and `model` that are about the file, not about its variables.
macro_rules! pass_on {
    () => {
        fn model(&self) -> &knarr_array::model::Model {
            &self.model
        }

        fn path(&self) -> &std::path::Path {
            self.source.path()
        }

        fn format(&self) -> &str {
            self.source.format()
        }

        fn elsewhere(&self) -> Option<&dyn knarr_flow::elsewhere::Elsewhere> {
            // Regions are others there.
            None
        }

        fn ahead(&self) -> Option<&dyn knarr_flow::ahead::Ahead> {
            None
        }

        fn is_far(&self) -> bool {
            self.source.is_far()
        }

        fn will_read_all(&self) {
            self.source.will_read_all();
        }

        fn limit_cache(&self, bytes: usize) {
            self.source.limit_cache(bytes);
        }

        fn decode_seconds(&self) -> f64 {
            self.source.decode_seconds()
        }

        fn unchanged(&self) -> knarr_array::error::Result<()> {
            self.source.unchanged()
        }
    };
}

pub(crate) use pass_on;
