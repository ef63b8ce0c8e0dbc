//! A table of columns as Parquet, and as Arrow.

use std::{
    fs::File,
    io::{self, Write},
    sync::Arc,
};

use arrow_array::{
    Array, ArrayRef, BooleanArray, Float64Array, RecordBatch, StringArray, UInt64Array,
    cast::AsArray,
    types::{Float64Type, UInt64Type},
};
use arrow_schema::{DataType, Field, Schema};
use parquet::{
    arrow::{ArrowWriter, ProjectionMask, arrow_reader::ParquetRecordBatchReaderBuilder},
    basic::{Compression, ZstdLevel},
    file::{metadata::KeyValue, properties::WriterProperties},
};

use crate::{Column, Columns};

/// Whether this build can write tables.
pub(crate) const IS_BUILT: bool = true;

/// Key of the metadata entry with the version of the tables' names and meaning, and that version.
const VERSION: (&str, &str) = ("peryton.reports.version", "1");

impl Columns {
    /// The table in columns of Arrow: `UInt64`, `Float64`, `Boolean` and `Utf8`; a figure that does not apply is null.
    pub fn to_arrow(&self) -> RecordBatch {
        let (mut fields, mut arrays) = (Vec::new(), Vec::new());
        for (name, column) in self.columns() {
            let (kind, array): (DataType, ArrayRef) = match column {
                Column::Whole(values) => (DataType::UInt64, Arc::new(UInt64Array::from_iter(values.iter().copied()))),
                Column::Number(values) => {
                    (DataType::Float64, Arc::new(Float64Array::from_iter(values.iter().copied())))
                }
                Column::Truth(values) => (DataType::Boolean, Arc::new(BooleanArray::from_iter(values.iter().copied()))),
                Column::Text(values) => (DataType::Utf8, Arc::new(StringArray::from_iter(values.iter()))),
            };
            fields.push(Field::new(name, kind, true));
            arrays.push(array);
        }
        let options = arrow_array::RecordBatchOptions::new().with_row_count(Some(self.rows()));
        RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), arrays, &options)
            .expect("the columns are equally long")
    }
}

/// Writes a table; the same table gives the same bytes.
pub(crate) fn write<W: Write + Send>(table: &Columns, out: W) -> io::Result<W> {
    let batch = table.to_arrow();
    let properties = WriterProperties::builder()
        .set_created_by(concat!("peryton ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(3).expect("zstd has levels 1 to 22")))
        .set_key_value_metadata(Some(vec![KeyValue::new(VERSION.0.to_owned(), VERSION.1.to_owned())]))
        .build();
    let mut writer = ArrowWriter::try_new(out, batch.schema(), Some(properties)).map_err(io::Error::other)?;
    writer.write(&batch).map_err(io::Error::other)?;
    writer.into_inner().map_err(io::Error::other)
}

/// Reads the columns with the wanted names of a table that [`write`] wrote.
pub(crate) fn read(file: File, wanted: impl Fn(&str) -> bool) -> io::Result<Columns> {
    let reader = ParquetRecordBatchReaderBuilder::try_new(file).and_then(|builder| {
        let fields = builder.schema().fields().iter().enumerate();
        let roots: Vec<usize> = fields.filter(|(_, field)| wanted(field.name())).map(|(root, _)| root).collect();
        let mask = ProjectionMask::roots(builder.parquet_schema(), roots);
        builder.with_projection(mask).build()
    });
    let batches = reader.map_err(io::Error::other)?.map(|batch| batch.map(|batch| Columns::of_arrow(&batch)));
    let batches = batches.collect::<Result<Option<Vec<_>>, _>>().map_err(io::Error::other)?;
    batches.map(Columns::joined).ok_or_else(|| io::Error::other("has columns of a type that no table of reports has"))
}

impl Columns {
    /// The columns of a batch; `None` if a table of reports cannot have one of them.
    fn of_arrow(batch: &RecordBatch) -> Option<Columns> {
        let column = |array: &ArrayRef| {
            Some(match array.data_type() {
                DataType::UInt64 => Column::Whole(array.as_primitive::<UInt64Type>().iter().collect()),
                DataType::Float64 => Column::Number(array.as_primitive::<Float64Type>().iter().collect()),
                DataType::Boolean => Column::Truth(array.as_boolean().iter().collect()),
                DataType::Utf8 => {
                    Column::Text(array.as_string::<i32>().iter().map(|text| text.map(str::to_owned)).collect())
                }
                _ => return None,
            })
        };
        let schema = batch.schema();
        let pairs = schema.fields().iter().zip(batch.columns());
        let columns =
            pairs.map(|(field, array)| Some((field.name().clone(), column(array)?))).collect::<Option<_>>()?;
        Some(Columns::of_columns(columns, batch.num_rows()))
    }
}
