import {
  asyncBufferFromFile,
  parquetMetadataAsync,
  parquetReadObjects,
  parquetSchema,
} from 'hyparquet';
import { compressors } from 'hyparquet-compressors';
import { utf8Text } from '../../../platform/utf8-text.js';
import { CorpusProblem, expectedColumn, textIn } from './problem.js';

/** A byte that is no UTF-8 is refused. Absent: the row has no text. */
const stringFromBytes = (bytes: Uint8Array | undefined): string | undefined =>
  bytes &&
  utf8Text(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength), { start: false });

/** A column of a Parquet file. One group of rows is in memory, and of it this column alone. */
export async function* parquetTexts(path: string, column: string): AsyncGenerator<string> {
  const file = await asyncBufferFromFile(path);
  const metadata = await parquetMetadataAsync(file);
  const names = parquetSchema(metadata).children.map(({ element }) => element.name);
  if (!names.includes(column))
    throw new CorpusProblem({ at: '', what: expectedColumn(column, names) });
  let row = 0;
  for (const { num_rows } of metadata.row_groups) {
    const rows = await parquetReadObjects({
      file,
      metadata,
      columns: [column],
      rowStart: row,
      rowEnd: row + Number(num_rows),
      compressors,
      parsers: { stringFromBytes },
    });
    for (const one of rows) {
      row += 1;
      yield textIn(one[column], { column, row });
    }
  }
}
