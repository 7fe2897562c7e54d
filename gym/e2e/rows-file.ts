import { exists } from '../../src/platform/files.js';
import type { Places } from '../config/search-roots.js';
import { resolveUnderRoots } from '../config/search-roots.js';
import type { Dataset } from './datasets.js';

/** The file of a data set: where it should be, else the one that upstream would copy there, in a cache of the Hub. */
export async function rowsOf(
  { jsonl_fpath, hub }: Pick<Dataset, 'jsonl_fpath' | 'hub'>,
  places: Places,
): Promise<string> {
  const file = await resolveUnderRoots(jsonl_fpath, places);
  if (hub === null || (await exists(file))) return file;
  const cached = await resolveUnderRoots(hub, places);
  return (await exists(cached)) ? cached : file;
}
