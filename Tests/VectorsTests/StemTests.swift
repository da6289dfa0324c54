// Stems of seven languages, as Snowball's own programs have them.

import Support
import Testing

@testable import Vectors

@Suite struct StemTests {
  private static let stems: [(StemLanguage, String)] = [
    (
      .english,
      """
      standstills:standstil neurotic:neurot falsely:fals backpedal:backped fuddled:fuddl gulliver:gulliv iodizes:iodiz
      bonaventure:bonaventur loathings:loath unrelenting:unrel revealing:reveal commandments:command daintily:daintili
      coeds:co ominous:omin humanness:human delays:delay repeatably:repeat retrogressive:retrogress spoliation:spoliat
      concatenating:concaten relevant:relev reassuringly:reassur shopkeepers:shopkeep whitehall:whitehal
      incarnation:incarn muhammadanisms:muhammadan figuratively:figur totality:total transiency:transienc
      blacktopped:blacktop inflatable:inflat distillations:distil delineations:delin planing:plane
      illegitimate:illegitim governance:govern utilities:util convertibles:convert discontented:discont
      allegedly:alleg proclamations:proclam deterring:deter desperately:desper coped:cope zigzagging:zigzag
      tablespoonfuls:tablespoon detectives:detect masterfully:master tranquilize:tranquil distilling:distil
      advocated:advoc enthronements:enthron different:differ deputized:deput beautiful:beauti impudence:impud
      seductively:seduct bogged:bog surrealism:surreal traditional:tradit adolescences:adolesc degenerative:degen
      geoengineering:geoengin outdistances:outdist epileptics:epilept anatomical:anatom fortification:fortif
      fixations:fixat terrifically:terrif sky:sky skies:sky news:news dying:die lying:lie tied:tie cries:cri
      exceed:exceed proceed:proceed hopping:hop hoping:hope falling:fall past:past pasted:paste inning:inning
      generously:generous communication:communic international:internat happily:happili ugly:ugli only:onli egg:egg
      added:add
      """
    ),
    (
      .german,
      """
      neuordnens:neuordn aufwischend:aufwisch umgeräumte:umgeraumt stelligem:stellig entgangenem:entgang
      schauerlichen:schau unmodisch:unmod werktätiges:werktat wochenschlüsse:wochenschluss strukturelles:strukturell
      eichten:eicht harmonie:harmoni kropfs:kropf säugendes:saugend seifennäpfen:seifennapf abgesendeter:abges
      hammers:hamm übrigbleiben:ubrigbleib ungehorsamster:ungehorsam durchspülendem:durchspul ungnädigster:ungnad
      asketisches:asket gereichende:gereich fortstehlenden:fortstehl leichtgängiger:leichtgang angemaßte:angemasst
      aufschraubtet:aufschraubt nigerianerin:nigerian ausgewerteter:ausgewert andienst:andien verzögerbar:verzogerbar
      untreuster:untreust gebärdendem:gebard verbeugendem:verbeug gynäkologe:gynakolog schlürfend:schlurfend
      fräswalzenhöhe:fraswalzenhoh großgezogen:grossgezog tuberkulöses:tuberkulos perfektest:perfekt
      generellerem:generell dekadentestes:dekadent veräußerndes:veraussernd maßstäblicher:massstab tüftelnden:tuftelnd
      verratenen:verrat sarkastische:sarkast ausdünntet:ausdunnt gleichgroßes:gleichgross rekurrierendes:rekurrier
      anfrieren:anfri schnüren:schnur übernähme:ubernahm unbeholfener:unbeholf hinunterfällt:hinunterfallt
      henkeln:henkel dreifuß:dreifuss abdüstet:abdust richtigstes:richtig einelementiger:einelement
      prämierender:pramier schlankere:schlank einteiliges:einteil sprödem:sprod unbewölkte:unbewolkt
      antistatischen:antistat ausräumtest:ausraumt bewaffnetem:bewaffn entsperrung:entsperr stellerinnen:stell
      häuser:haus straße:strass müsst:musst aufgaben:aufgab internet:internet ticket:ticket systemen:system plan:plan
      planet:planet geordnetes:geordnet bauer:bau quelle:quell
      """
    ),
    (
      .french,
      """
      défavorisons:défavorison intriquasse:intriqu opulemment:opulent rebelliez:rebel apercevras:apercevr
      pommaderions:pommad occupée:occup prochainement:prochain dilection:dilect houspillait:houspill
      coloriages:coloriag chatoyas:chatoi débouclerait:déboucl stérerez:ster sécularise:sécularis excrétées:excret
      rapapillotiez:rapapillot emmiellée:emmiel mécherait:mech glaiserai:glais tilleraient:till piferons:pif
      lécheras:lech vaselinaient:vaselin pêchés:pêch gloutonnement:glouton réfrénassions:réfren truffant:truff
      regèlera:regel fourrageai:fourrag gicler:gicl glénant:glen nommerez:nomm lanières:lani batelions:batel
      billonneront:billon sonorisations:sonoris ébattisses:ébatt purifiât:purifi grouillâtes:grouill inféreras:infer
      contingenté:contingent crèneront:cren dynastique:dynast entrelarderais:entrelard reconstituera:reconstitu
      barouda:baroud zigouillâmes:zigouill règleriez:regl vénérerais:véner drayeront:drai diminueriez:diminu
      renfermeras:renferm fouineront:fouin toupillais:toupill vénusienne:vénusien tempèreriez:temper
      préparatrices:prépar sauçât:sauc fusibilité:fusibil zigonné:zigon rasseyerait:rassei chevrettais:chevret
      faibliras:faibl partante:part confidences:confident employables:emploi imitassiez:imit muflerie:mufler
      machiniste:machin naïve:naïv loüaient:loü jouaient:jou hiérarchie:hiérarch mauvais:mauvais paris:paris
      confusément:confus évidemment:évident prière:prier héroïque:héro
      """
    ),
    (
      .spanish,
      """
      pisana:pisan córcholis:corcholis desemejado:desemej corruptivo:corrupt terrígena:terrigen estirajar:estiraj
      carinegro:carinegr hipocóndrica:hipocondr destripador:destrip serpentear:serpent enyescarse:enyesc
      acertadora:acert plantígrado:plantigr charcón:charcon gradada:grad repercutir:repercut histórico:histor
      transformista:transform abacería:abac tacuara:tacu zandía:zand desmarrido:desmarr mílite:milit
      exfoliación:exfoli condestable:condest ávida:avid antiflogística:antiflogist modernamente:modern
      almacenamiento:almacen inclín:inclin mitad:mit estache:estach impetuosidad:impetu minúscula:minuscul
      administrativo:administr deshonrosa:deshonr cohondimiento:cohond cinámica:cinam novecientos:novecient
      glacialmente:glacial pútrida:putr réproba:reprob veronés:verones bonapartismo:bonapart perdidoso:perdid
      pandáneo:pandane tílburi:tilburi lancán:lancan antidáctilo:antidactil zootécnico:zootecn espagírico:espagir
      comprender:comprend cárter:cart cálido:cal ateísmo:ateism aimará:aim sacamantas:sacamant tectónica:tecton
      burseráceo:burserace quemí:quem colérica:coler ahílo:ahil excelentemente:excelent algaliera:algal detenida:deten
      decápodo:decapod soterránea:soterrane gúmena:gumen temático:temat pestilencia:pestilent dándomelo:dandomel
      guíe:gui agüé:agü logía:log argüir:argü
      """
    ),
    (
      .italian,
      """
      volterei:volt arrogare:arrog travestiamo:travest scettri:scettr compose:compos consacrato:consacr slegasse:sleg
      digiuneremo:digiun zappo:zapp rettificati:rettific innestano:innest susseguivi:sussegu aurea:aure
      sacrifica:sacrif imbottirete:imbott potersene:pot dirameranno:diram migliorassi:miglior inondò:inond
      esonerata:esoner edificheranno:edific creparono:crep serraglio:serragl propagheremmo:propag telefonarti:telefon
      esplicavamo:esplic costruisci:costru promulgheresti:promulg vesserebbero:vess entravate:entrav
      scardinammo:scardin decentrante:decentr sfibbiare:sfibb costituiva:costitu bastonerò:baston
      apprezzeremmo:apprezz remassimo:rem abbonavate:abbon protendono:protend mischierò:misc sussultando:sussult
      avanzerai:avanz abiuriate:abiur gustavi:gust respirò:resp guastavano:guast fondassero:fond fanghi:fang
      cogitazioni:cogit sublimazione:sublim ristampava:ristamp confischerò:confisc scoperti:scop lusingavo:lusing
      lisciò:lisc stordirono:stord disgregherei:disgreg implorerebbe:implor organizzerà:organizz musicanti:music
      tracciano:tracc dedicherà:dedic scorrendola:scorr ecceduto:ecced chiarisco:chiar scaveresti:scav
      maneggiavi:manegg strisciasse:strisc ingegnosa:ingegn dislochiate:disloc dandogli:dandogl divano:divan
      troiaio:troiai città:citt parlarne:parl
      """
    ),
    (
      .portuguese,
      """
      desalinhais:desalinh presumiu:presum medicamentavam:medicament designações:design barcaça:barcac esquiaria:esqui
      pegastes:peg desenfadaras:desenfad soaríamos:soar raivecerás:raivec zoásseis:zoáss venerados:vener
      contraplacar:contraplac bigamizarem:bigamiz reprocessando:reprocess chalaçaram:chalac indeferido:indefer
      pronunciada:pronunc simetrizareis:simetriz aplacáveis:aplac refluí:reflu assombrardes:assombr feríssemos:fer
      liquefazê:liquefaz locatário:locatári requestássemos:request distraísses:distraíss encherei:encher
      rebolado:rebol cabeceada:cabec sujeitarás:sujeit estofou:estof desinquietada:desinquiet cervantinas:cervantin
      proibirão:proib desembargos:desembarg transtornasses:transtorn negativásseis:negativ remáramos:rem
      camurço:camurc declinares:declin trincava:trinc renunciantes:renunc embruxador:embrux vaporizarmos:vaporiz
      freática:freátic rebelionará:rebelion desbandaram:desband cromatismos:cromat aceitá:aceit resplenderão:resplend
      infeccionaste:infeccion calorifico:calorif massajaríamos:massaj polque:polqu escalem:escal
      semicerráreis:semicerr pactearíeis:pact osciladores:oscil alvorecermos:alvorec parodiadas:parodi
      desenjaulasse:desenjaul nutricionistas:nutricion esgazeem:esgaz baseavam:bas minguemos:mingu catarreaste:catarr
      balizariam:baliz amofinarão:amofin entupira:entup coração:coraçã corações:coraçõ irmã:irmã seguir:segu
      """
    ),
    (
      .dutch,
      """
      opiniestukje:opiniestuk neopaganisme:neopagaan springend:spring altpartijen:altpartij kortste:kort
      boomgrens:boomgren stopen:stoop gehinderde:hinder uitwiste:uitwist explosieven:explosief klakken:klak
      supervisoren:supervisoor vlaggenmakers:vlagnmaker stipt:stip handwapen:handwaap grabbelde:grabbel zooitjes:zooit
      geknutsel:knut generalissimi:neralissimi oergeluiden:oerluid oppakkend:oppak oegandezen:oegandes
      gedramatiseerd:dramatiseer judoles:judool fleurden:fleur kerkpatronen:kerkpatroon aanspeelbaar:aanspeel
      opknapte:opknap adembenemend:adembeneem uitgekafferd:uitkaffer grimeuses:grimeus instortingen:instort
      neerdrukten:neerdruk mengseltje:meng zielig:ziel oplagen:oplaag wensenlijstje:wensenlijs geschaduwd:schaduw
      vlasroting:vlasroot vetgehalte:vethal aanwassende:aanwas tremaatjes:tremaa dichtgeslibd:dichtslib
      vlaslinnen:vlaslin spinozisme:spinoos ulicoten:ulicoot toegefelijk:toefelijk filosofen:filosoof
      exempelen:exempeel directheid:direct belagende:belaag inrichting:inricht instapmodellen:instapmodel
      maximuminkomen:maximuminkoom kesselaar:kessel procesmatige:procesmaat gebonjourd:bonjour beestige:beest
      buitengemeen:buitenmeen legerkleding:lerkleed dichtlievend:dichtlief urendeclaratie:urendeclareer killige:kil
      weggegane:weggane wortelgetal:worteltal beurtstaking:beurtstaak uitsteken:uitsteek geldgierigheid:ldgier
      uitvaagsel:uitvaag wolkgevaarte:wolkvaar geïnd:inn geënt:ent gevallen:geval schilderij:schilder innig:innig
      vrijheden:vrijhed huisjes:huis lopende:loop geëist:eis
      """
    ),
  ]

  @Test(arguments: stems) func `words have the stems of Snowball's programs`(
    _ language: StemLanguage, _ pairs: String
  ) {
    for pair in pairs.split(whereSeparator: \.isWhitespace) {
      let (word, stem) = (pair.prefix { $0 != ":" }, pair.drop { $0 != ":" }.dropFirst())
      let found = language.stem(Array(word.utf8)).map { String(decoding: $0, as: UTF8.self) }
      #expect(found == String(stem), "\(word)")
    }
  }

  @Test func `what is no word of these languages has no stem`() {
    for text in ["42", "приветы", "東京", "a1", "łódź"] {
      #expect(StemLanguage.english.stem(Array(text.utf8)) == nil)
    }
    for language in StemLanguage.allCases {
      for text in ["", "a", "y", "é", "s", "ge", "ies", "eed"] {
        #expect(language.stem(Array(text.utf8)) != nil)
      }
    }
  }

  @Test func `any letters have a stem without harm`() {
    var state: UInt64 = 7
    func next(_ count: Int) -> Int {
      state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
      return Int(state >> 33) % count
    }
    let letters = Array("aeiouyngstdrlëïéèçãßqu")
    for _ in 0..<5_000 {
      let word = String((0..<next(12)).map { _ in letters[next(letters.count)] })
      for language in StemLanguage.allCases { #expect(language.stem(Array(word.utf8)) != nil) }
    }
  }

  @Test(
    arguments: [
      ("The boiler was not serviced in the year.", StemLanguage.english),
      ("Der Kessel wurde nicht von der Firma gewartet.", .german),
      ("La chaudière est dans la cave et le tuyau aussi.", .french),
      ("La caldera no se revisa en el invierno por el frío.", .spanish),
      ("La caldaia è nella cantina e non si accende di notte.", .italian),
      ("A caldeira não está em casa e o técnico não vem.", .portuguese),
      ("De ketel is niet in het huis van de buren.", .dutch), ("Boiler 2025", .english), ("天気予報", .english),
    ])
  func `a text is in the language whose frequent words it has`(_ text: String, _ language: StemLanguage) {
    #expect(StemLanguage.of(WordSplitter.words(in: Array(text.utf8))) == language)
  }

  @Test func `an index finds other forms of a word, each language by its own rules`() throws {
    let index = try VectorIndex(folder: "/i", fingerprint: "f", dimensions: 4, files: SimulatedDisk())
    let texts = [
      "The engineers were running three connected experiments.",
      "Die Häuser wurden nicht von den Besitzern renoviert.",
      "Les réservations sont dans la boîte et les clés aussi.", "A note about nothing of that kind at all.",
    ]
    let key = RowKey(high: 1, low: 1)
    try index.remember([(key, [1, 0, 0, 0])])
    for (number, text) in texts.enumerated() {
      let bytes = Array(text.utf8)
      let passage = Passage(text: bytes, range: 0..<bytes.count, rows: [key])
      try index.commit(
        NewDocument(
          key: "\(number)", info: [], name: Array("trips/Wanderung \(number)".utf8), passages: [passage]))
    }
    for isCompacted in [false, true] {
      if isCompacted { try index.compact(all: true) }
      let view = index.view
      func find(_ text: String) throws -> [String] {
        try view.byWords(WordQuery(Array(text.utf8)), limit: 9).hits.map { try view.passage($0).document.key }
      }
      #expect(try find("experiment") == ["0"] && find("connection runs") == ["0"])
      #expect(try find("Haus renovieren") == ["1"])
      #expect(try find("réservation") == ["2"] && find("reservations") == ["2"])
      // Names are words too, in the language of their texts.
      #expect(try Set(find("Wanderungen")) == ["1"] && find("trip").contains("0") && find("3") == ["3"])
    }
  }
}
