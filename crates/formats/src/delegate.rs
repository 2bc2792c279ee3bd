//! Methods of a source that are passed on to the source it wraps.

/// Implements the named methods of [`Source`](knarr_flow::store::Source) by calling the field `source`. A source that shows another
/// model has it in the field `model` (`own_model`), and offers no places (`no_places`), because its regions differ.
macro_rules! delegate {
    (@model) => {
        fn model(&self) -> &knarr_array::model::Model {
            self.source.model()
        }
    };
    (@own_model) => {
        fn model(&self) -> &knarr_array::model::Model {
            &self.model
        }
    };
    (@path) => {
        fn path(&self) -> &std::path::Path {
            self.source.path()
        }
    };
    (@format) => {
        fn format(&self) -> &str {
            self.source.format()
        }
    };
    (@places) => {
        fn remote_encoder(&self) -> Option<&dyn knarr_flow::remote_encoder::RemoteEncoder> {
            self.source.remote_encoder()
        }

        fn ahead(&self) -> Option<&dyn knarr_flow::ahead::Ahead> {
            self.source.ahead()
        }
    };
    (@no_places) => {
        fn remote_encoder(&self) -> Option<&dyn knarr_flow::remote_encoder::RemoteEncoder> {
            None
        }

        fn ahead(&self) -> Option<&dyn knarr_flow::ahead::Ahead> {
            None
        }
    };
    (@reading) => {
        fn will_read_all(&self) {
            self.source.will_read_all();
        }

        fn limit_cache(&self, bytes: usize) {
            self.source.limit_cache(bytes);
        }

        fn decode_seconds(&self) -> f64 {
            self.source.decode_seconds()
        }
    };
    (@is_remote) => {
        fn is_remote(&self) -> bool {
            self.source.is_remote()
        }
    };
    (@unchanged) => {
        fn unchanged(&self) -> knarr_array::error::Result<()> {
            self.source.unchanged()
        }
    };
    (@variables) => {
        fn block(&self, variable: usize) -> Option<&[u64]> {
            self.source.block(variable)
        }

        fn axis_names(&self, variable: usize) -> Vec<Option<String>> {
            self.source.axis_names(variable)
        }

        fn element_type(&self, variable: usize) -> Option<&knarr_array::model::ElementType> {
            self.source.element_type(variable)
        }

        fn strings(&self, variable: usize) -> Option<knarr_flow::store::Strings> {
            self.source.strings(variable)
        }
    };
    (@as_any) => {
        fn as_any(&self) -> &dyn std::any::Any {
            self.source.as_any()
        }
    };
    ($($methods:ident),*) => {
        $(crate::delegate::delegate!(@$methods);)*
    };
}

pub(crate) use delegate;
