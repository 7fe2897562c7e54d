import { writeFile } from 'node:fs/promises';
import path from 'node:path';

/** A file of results in this folder, with a torn line at its end. */
export async function writeResults(folder: string): Promise<string> {
  const file = path.join(folder, 'out.jsonl');
  await writeFile(file, `${RESULTS.join('\n')}\n\n{"torn":`);
  return file;
}

const RESULTS = [
  '{"reward":1.0,"id":9007199254740993,"ng_trajectory":{"steps":[]}}',
  '{"reward":0,"note":"ä\\n","ng_model_call_capture":{"gaps":[],"calls":[{"call_index":0,"request":{"a":1},"response":{},"ms":3}]}}',
];

/** What is uploaded of them. */
export const UPLOADED = [
  '{"reward":1.0,"id":9007199254740993}',
  '{"reward":0,"note":"ä\\n","ng_model_call_capture":{"gaps":[],"calls":[{"call_index":0,"ms":3}]}}',
];
