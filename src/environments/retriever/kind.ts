import path from 'node:path';
import { defineKind, inJavaScript } from '../kind.js';
import { createRetrieverEnvironment } from './environment.js';
import { RetrieverSettings } from './settings.js';

export const retriever = defineKind({
  settings: RetrieverSettings,
  answers: () => 'in process',
  roles: ['environment'],
  resolve: (settings, directory) => ({
    ...settings,
    corpus: path.resolve(directory, settings.corpus),
    ...(settings.vocabulary !== undefined && {
      vocabulary: path.resolve(directory, settings.vocabulary),
    }),
  }),
  make: inJavaScript(async (_settings, context) =>
    createRetrieverEnvironment(await context.retriever(context.name)),
  ),
});
