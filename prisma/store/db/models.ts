// The tables as Prisma's models: what a read or a simple write uses, on the database itself or in a Prisma transaction.
// Every model is named here, so that the store needs no Proxy around the Prisma client.

import type { Prisma } from '../../generated/client';

type Client = Prisma.TransactionClient;

/** Passes each model of the schema on from a Prisma client. Getters, because a Prisma client builds a model on access. */
export abstract class Models {
  protected abstract readonly client: Client;

  get company(): Client['company'] {
    return this.client.company;
  }
  get apiKey(): Client['apiKey'] {
    return this.client.apiKey;
  }
  get modelKey(): Client['modelKey'] {
    return this.client.modelKey;
  }
  get modelKeyTest(): Client['modelKeyTest'] {
    return this.client.modelKeyTest;
  }
  get agent(): Client['agent'] {
    return this.client.agent;
  }
  get room(): Client['room'] {
    return this.client.room;
  }
  get roomMember(): Client['roomMember'] {
    return this.client.roomMember;
  }
  get invitation(): Client['invitation'] {
    return this.client.invitation;
  }
  get roomAgent(): Client['roomAgent'] {
    return this.client.roomAgent;
  }
  get rosterName(): Client['rosterName'] {
    return this.client.rosterName;
  }
  get roomEvent(): Client['roomEvent'] {
    return this.client.roomEvent;
  }
  get message(): Client['message'] {
    return this.client.message;
  }
  get messageAddressee(): Client['messageAddressee'] {
    return this.client.messageAddressee;
  }
  get task(): Client['task'] {
    return this.client.task;
  }
  get memoryEntry(): Client['memoryEntry'] {
    return this.client.memoryEntry;
  }
  get file(): Client['file'] {
    return this.client.file;
  }
  get fileContent(): Client['fileContent'] {
    return this.client.fileContent;
  }
  get passage(): Client['passage'] {
    return this.client.passage;
  }
  get wake(): Client['wake'] {
    return this.client.wake;
  }
  get tokenReservation(): Client['tokenReservation'] {
    return this.client.tokenReservation;
  }
  get agentRunLock(): Client['agentRunLock'] {
    return this.client.agentRunLock;
  }
  get run(): Client['run'] {
    return this.client.run;
  }
  get runStep(): Client['runStep'] {
    return this.client.runStep;
  }
  get heldAction(): Client['heldAction'] {
    return this.client.heldAction;
  }
  get heldActionChange(): Client['heldActionChange'] {
    return this.client.heldActionChange;
  }
  get runSignal(): Client['runSignal'] {
    return this.client.runSignal;
  }
  get modelRequest(): Client['modelRequest'] {
    return this.client.modelRequest;
  }
  get auditEntry(): Client['auditEntry'] {
    return this.client.auditEntry;
  }
  get storedAnswer(): Client['storedAnswer'] {
    return this.client.storedAnswer;
  }
}

/** The name of every model. A model of the schema that `Models` lacks fails the build at `Reader`. */
export type ModelName = Uncapitalize<Prisma.ModelName>;
