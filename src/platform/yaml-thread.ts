import { parentPort, workerData } from 'node:worker_threads';
import { parse } from 'yaml';

/** The thread of `parseForeignYaml`: posts the value, or throws the parser's error. */

// As in PyYAML, the last value of a repeated key wins. Searching for repeated keys would take quadratic time.
const options = { logLevel: 'silent', uniqueKeys: false } as const;
parentPort?.postMessage(parse(workerData as string, options));
