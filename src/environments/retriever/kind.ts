import path from 'node:path';
import { isHubName } from '../../platform/hub.js';
import { defineKind, inJavaScript } from '../kind.js';
import { RetrieverSettings } from './settings.js';
import type { Environment } from '../environment.js';
import { environmentSays, stepNow } from '../turn.js';
import type { RetrievedDocument, Retriever } from './retriever.js';

export const retriever = defineKind({
  settings: RetrieverSettings,
  answers: () => 'in process',
  roles: ['environment'],
  resolve: (settings, directory) => ({
    ...settings,
    corpus: resolved(settings.corpus, directory),
    ...(settings.vocabulary !== undefined && {
      vocabulary: resolved(settings.vocabulary, directory),
    }),
  }),
  make: inJavaScript(async (_settings, context) =>
    createRetrieverEnvironment(await context.retriever(context.name)),
  ),
});

const resolved = (given: string, directory: string): string =>
  isHubName(given) ? given : path.resolve(directory, given);

const OPEN = '<retrieve>';
const CLOSE = '</retrieve>';

/** Upstream's RAG environment. It fails at a query whose words are in no document; here that is an empty query. */
export function createRetrieverEnvironment(retriever: Retriever): Environment {
  return {
    step: stepNow(({ message_log, metadata }) => {
      const query = parseQuery(message_log.at(-1)?.content ?? '');
      const found = query === null ? 'No retrieval query found!' : format(retriever.search(query));
      return {
        observation: environmentSays(found),
        reward: 0,
        terminated: true,
        metadata,
        next_stop_strings: [CLOSE],
      };
    }),
  };
}

/** From the first opening tag to the last closing one. */
function parseQuery(text: string): string | null {
  const open = text.indexOf(OPEN);
  const start = open + OPEN.length;
  const end = text.lastIndexOf(CLOSE);
  return open === -1 || end < start ? null : text.slice(start, end);
}

function format(found: readonly RetrievedDocument[]): string {
  const documents = found.map(({ text }, i) => `<${i + 1}>\n${text}\n</${i + 1}>\n`);
  return `<result>\n${documents.join('')}</result>\n`;
}
