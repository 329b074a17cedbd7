// The parts of the YAML library that are used: named, so that the rest of it stays out of the bundle. Evaluated when
// the first YAML manifest is read.
import { isAlias, isCollection, isMap, isScalar, isSeq, Lexer, LineCounter, parseDocument } from 'yaml';

export const yamlLibrary = {
  isAlias,
  isCollection,
  isMap,
  isScalar,
  isSeq,
  Lexer,
  LineCounter,
  parseDocument,
} as const;
